// explorerzoom
