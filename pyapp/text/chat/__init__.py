"""Conversations: templates, thoughts, tool calls."""
