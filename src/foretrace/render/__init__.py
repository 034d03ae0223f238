"""A document or a record as text: for a terminal, as Markdown, as JSON."""
