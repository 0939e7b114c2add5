SECRET = "s3cret-value"
