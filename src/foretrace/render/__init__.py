"""A document or a record as text: for a terminal, as Markdown, as JSON, as a page of HTML."""
