"""Shell commands taken apart: text → tree (`plain`, `shfmt`) → what runs (`walk`)."""
