"""What every command shares: where it prints, how it shows values, how it fails."""
