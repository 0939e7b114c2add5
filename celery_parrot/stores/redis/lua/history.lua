-- call.id, call.limit, call.before? -> moment, entry, … newest due time first.
return plain(history(call.id, call.limit, call.before))
