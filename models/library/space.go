package library

import (
	"errors"
	"fmt"
	"syscall"
)

// full marks an error as ErrSpace when the system says that there is no room.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return err
}
