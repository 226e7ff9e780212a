"""Safe unpacking of archives: member by member, without links, bounded in size and number."""
