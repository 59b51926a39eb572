"""The online half of RAG that finds: rewrite, retrieve, fuse, rerank."""
