"""How language models write: sessions, sampling, beams, drafts."""
