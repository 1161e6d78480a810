"""`pyapp serve`: models over HTTP, in the interfaces of OpenAI, and of Hugging Face's text-generation-inference and
text-embeddings-inference.

- `engine.py`: the one thread that computes. `scheduler.py`: the texts of a language model, decoded together.
  `batching.py`: embeddings of several requests together. `served.py`: the models, and how they are loaded.
- `fields.py`, `problems.py`: reading requests, and errors in OpenAI's form. `app.py` joins the routes, which are in a
  file for each interface; `server.py` runs them.

Needs the extra `server` (starlette, uvicorn, python-multipart, prometheus-client).
"""
