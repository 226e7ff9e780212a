"""Files on this machine: mapped or read by descriptor, alone and in sets."""
