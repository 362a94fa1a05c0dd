"""Published analyses, made again."""
