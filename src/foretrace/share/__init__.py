"""Traces where people can open them: redacted, in a bucket, or in Perfetto on this machine."""
