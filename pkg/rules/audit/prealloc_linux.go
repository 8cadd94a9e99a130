package audit

import (
	"errors"
	"syscall"
)

// Room that is set aside in a file: as long as keptSpace of it are left, no more is asked for.
const (
	preallocStep = 2 << 20
	keptSpace    = 1 << 20
)

// preallocate has the file system keep room for lines to come, so that those of calls that are on
// their way find it on a full disk. File systems that cannot do that are not asked again.
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
