package data

import "io"

// ReadCIFAR10 reads CIFAR-10 records. The name is for errors. With a limit above 0 it stops
// after that many records.
func ReadCIFAR10(r io.Reader, name string, limit int) (Images, error) {
	s := emptyCIFAR10()
	if err := s.addRecords(r, name, limit); err != nil {
		return Images{}, err
	}
	return s, nil
}
