"""What well-known programs do with their words: what they read, write and run."""
