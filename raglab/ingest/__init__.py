"""The offline half of RAG: documents in, an index out."""
