package onedrive

import (
	"context"
	"fmt"
)

// markLost notes a folder that is gone. Its contents are removed at the end of the round.
func (l *lister) markLost(id string) {
	l.folderTree().lost(id)
	l.cursor.Lost = append(l.cursor.Lost, id)
}

// removeLost removes the files below folders that are gone.
func (l *lister) removeLost(ctx context.Context) error {
	if len(l.cursor.Lost) == 0 {
		return nil
	}
	if err := l.s.Wait(); err != nil {
		return err // the memos of files are complete only after all readings
	}
	for id, of := range l.s.All() {
		folders := memoOf(of).steps()
		if len(folders) == 0 {
			continue
		}
		_, at, err := l.foldersAbove(ctx, folders[0].id)
		if err != nil {
			return fmt.Errorf("find the folder of %s: %w", id, err)
		}
		switch at {
		case outside:
			if err := l.s.Remove(ctx, id); err != nil {
				return err
			}
		case away, unknown:
			l.cursor.Relist = true
		}
	}
	l.cursor.Lost = nil
	return nil
}
