package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	cifarSide    = 32
	cifarClasses = 10
	cifarRecord  = 1 + 3*cifarSide*cifarSide // a label, then the red, green and blue plane
)

// LoadCIFAR10 reads the 50,000 training pictures from a folder with data_batch_1.bin to
// data_batch_5.bin, in the order of the files. With a limit above 0 it reads at most that many,
// and only the files that it needs.
func LoadCIFAR10(folder string, limit int) (Images, error) {
	all := emptyCIFAR10()
	for i := 1; i <= 5; i++ {
		if limit > 0 && all.Len() == limit {
			break
		}
		if err := all.addFile(filepath.Join(folder, fmt.Sprintf("data_batch_%d.bin", i)), limit); err != nil {
			return Images{}, err
		}
	}
	return all, nil
}

// AddTest appends the first n pictures of the folder's test file.
func (s *Images) AddTest(folder string, n int) error {
	all := s.Len() + n
	err := s.addFile(filepath.Join(folder, "test_batch.bin"), all)
	if err == nil && s.Len() < all {
		err = fmt.Errorf("test_batch.bin: holds %d pictures, fewer than %d", n-(all-s.Len()), n)
	}
	return err
}

// addFile appends the pictures of one file, up to limit in total.
func (s *Images) addFile(path string, limit int) error {
	file, err := openRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; unpack the binary version of CIFAR-10 (cifar-10-binary.tar.gz) "+
			"and name the folder with its .bin files", err)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return s.addRecords(file, path, limit)
}

// emptyCIFAR10 makes CIFAR-10 without pictures, with its usual normalisation.
func emptyCIFAR10() Images {
	return Images{
		Channels: 3, Height: cifarSide, Width: cifarSide, Classes: cifarClasses,
		Mean: []float32{0.4914, 0.4822, 0.4465},
		Std:  []float32{0.2023, 0.1994, 0.2010},
	}
}

// addRecords appends CIFAR-10 records of a label byte and 3×32×32 pixel bytes, up to limit
// pictures in total.
func (s *Images) addRecords(r io.Reader, name string, limit int) error {
	buffered := bufio.NewReaderSize(r, 1<<16)
	var record [cifarRecord]byte
	for number := 1; limit <= 0 || s.Len() < limit; number++ {
		n, err := io.ReadFull(buffered, record[:])
		switch {
		case errors.Is(err, io.EOF) && number == 1:
			return fmt.Errorf("%s: empty; expected CIFAR-10 records of %d bytes", name, cifarRecord)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s: ends after %d bytes of record %d; the length must be a multiple of %d",
				name, n, number, cifarRecord)
		case err != nil:
			return fmt.Errorf("%s: record %d: %w", name, number, err)
		case record[0] >= cifarClasses:
			return fmt.Errorf("%s: record %d has label %d; it must be 0 to %d (is this a CIFAR-10 file, and not cut?)",
				name, number, record[0], cifarClasses-1)
		}
		s.Labels = append(s.Labels, int32(record[0]))
		s.Pixels = append(s.Pixels, record[1:]...)
	}
	return nil
}
