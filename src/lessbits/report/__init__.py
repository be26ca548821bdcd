"""Results for people: tables and plots."""
