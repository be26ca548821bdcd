"""Results for people: text for the terminal, HTML and Markdown reports, and plots."""
