"""What is wrong with the tables of a service. `facts` asks AWS, and `checks` judges; pure."""
