"""`edgewise deploy`: fronts and models as replicas on Ray Serve. Only that command loads it."""
