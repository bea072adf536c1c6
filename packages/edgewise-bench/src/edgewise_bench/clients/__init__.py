"""Real clients, a real server, a scripted cloud: does all arrive as it was sent?"""
