return plain({})
