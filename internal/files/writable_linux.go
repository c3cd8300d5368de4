package files

import "golang.org/x/sys/unix"

// CheckWritable reports why files cannot be made in a folder. It asks, because a kill
// would leave a file that it made.
func CheckWritable(folder string) error { return unix.Access(folder+"/.", unix.W_OK|unix.X_OK) }
