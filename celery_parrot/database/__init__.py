"""What everything that speaks SQL shares: connections, column types, many rows in few round trips."""
