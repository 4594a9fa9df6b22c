"""Families of formats: what each answers of its own, found by a format's kind (`formats.FAMILIES`)."""
