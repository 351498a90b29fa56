"""The measurements of `elmox bench`, each next to its floor and its peers."""
