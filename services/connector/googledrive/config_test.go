package googledrive_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
)

func TestEveryProblemOfAConfigurationNamesFieldValueAndFix(t *testing.T) {
	for want, c := range map[string]googledrive.Config{
		`source: "drive" is not known; use my_drive, shared_drive or folder`: {Source: "drive"},
		`drive_id: it is missing; give the shared drive's id`:                {Source: "shared_drive"},
		`folder_id: it is missing; give the folder's id`:                     {Source: "folder"},
		`folder_id: "a/b" is not an id; copy what follows /folders/`:         {FolderID: "a/b"},
		`drive_id: "x'y" is not an id`:                                       {DriveID: "x'y"},
		`drive_id: "d" is not needed`:                                        {FolderID: "f", DriveID: "d"},
		`folder_id: "f" does not go with`:                                    {Source: "shared_drive", FolderID: "f", DriveID: "d"},
		`remove drive_id and folder_id`:                                      {Source: "my_drive", DriveID: "d"},
		`include_shared_drives: true goes with the source my_drive only`:     {FolderID: "f", IncludeSharedDrives: true},
		`max_file_bytes: -1 is out of range; use 1 to 33554432`:              {MaxFileBytes: -1},
		`max_files: 1000001 is out of range`:                                 {MaxFiles: 1000001},
		`is not an id`:                                                       {FolderID: strings.Repeat("x", 91)},
	} {
		require.ErrorContains(t, c.Validate(), want)
	}
	require.NoError(t, googledrive.Config{}.Validate())
	require.NoError(t, googledrive.Config{IncludeSharedDrives: true}.Validate())
	require.NoError(t, googledrive.Config{FolderID: "1aB-_c"}.Validate())
	_, err := googledrive.Sync(t.Context(), googledrive.Config{Source: "?"}, googledrive.Options{}, newStore())
	require.ErrorIs(t, err, worker.ErrPermanent)
}
