"""A web application on two servers, whose visitors see their own messages on both."""
