// explorerwhynot
