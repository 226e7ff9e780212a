"""tf.train.Example and SequenceExample."""
