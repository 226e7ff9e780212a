"""Archives unpacked safely: members one by one, no links, bounded size and number."""
