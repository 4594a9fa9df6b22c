def drawn(notes): return ""
