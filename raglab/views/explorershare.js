// explorershare
