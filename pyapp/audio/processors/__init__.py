"""What prepares recordings for models other than Whisper."""
