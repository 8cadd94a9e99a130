package audit

import (
	"errors"
	"syscall"
)

// preallocate allocates preallocStep bytes for a file. When less than keptSpace of them is free, it
// allocates again.
const (
	preallocStep = 2 << 20
	keptSpace    = 1 << 20
)

// preallocate makes the file system reserve space for future lines. So calls that have begun can
// still write their lines when the disk is full. If the file system cannot reserve space,
// preallocate does not try again.
func (d *Dir) preallocate() {
	if d.noRoom || d.room-d.size >= keptSpace {
		return
	}
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	var err error
	conn, failed := d.file.SyscallConn()
	if failed == nil {
		failed = conn.Control(func(fd uintptr) {
			for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
				err = syscall.Fallocate(int(fd), keepSize, d.size, preallocStep)
			}
		})
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		d.noRoom, err = true, nil
	}
	if d.scarce = errors.Join(failed, err); d.scarce == nil {
		d.room = d.size + preallocStep
	}
}
