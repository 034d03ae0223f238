"""What a command has to say, as typed records: built once, rendered by `foretrace.render`."""
