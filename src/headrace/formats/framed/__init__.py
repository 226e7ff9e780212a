"""What formats that frame records share: reading, scanning, writing."""
