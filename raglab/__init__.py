"""RAG Lab: retrieval-augmented generation, every stage in the open."""
