"""Stored sessions as documents for people."""
