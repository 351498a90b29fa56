"""How fast this machine is: the verbs of `elmox bench`, each beside its floor and its peers."""
