"""What `edgewise calibrate` does: labelled rows, the device's answers, a fit, and its report."""
