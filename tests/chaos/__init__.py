"""Real beats, workers, brokers and coordinators, killed, frozen and cut off; judged by what the tasks noted."""
