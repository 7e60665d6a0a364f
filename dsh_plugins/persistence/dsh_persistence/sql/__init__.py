"""Sessions in a database, through SQLAlchemy Core: SQLite or PostgreSQL."""
