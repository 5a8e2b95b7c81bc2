package library

import (
	"errors"
	"fmt"
	"syscall"
)

// wrapNoSpace wraps an error in ErrSpace if the disk or the quota is full.
func wrapNoSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return err
}
