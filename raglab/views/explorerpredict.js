// explorerpredict
