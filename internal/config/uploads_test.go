package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
)

func TestUploadsAreKeptInAFolderOrABucketAndNowhereElse(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "file:///var/lib/uploads", "s3://bucket", "s3://bucket?region=eu-central-1&endpoint=http%3A%2F%2F127.0.0.1%3A9000&use_path_style=true"} {
		require.NoError(t, config.Uploads{URL: good}.Validate(), good)
	}
	for bad, says := range map[string]string{
		"/var/lib/uploads": "no scheme", "file://host/folder": "no folder", "file:///": "no folder", "file:folder": "no folder", "file:///a?create_dir=1": "no folder", "s3://": "a bucket",
		"s3://bucket/below": "a bucket", "s3://key:secret@bucket": "UPLOAD_SECRET_ACCESS_KEY", "s3://bucket?profile=x": `"profile" is not known`, "gs://bucket": "no scheme", "://": "no URL",
	} {
		err := config.Uploads{URL: bad}.Validate()
		require.ErrorContains(t, err, says, bad)
		require.ErrorContains(t, err, "UPLOAD_URL", bad)
		require.NotContains(t, err.Error(), "key:secret")
	}
	require.ErrorContains(t, config.Uploads{URL: "s3://b", AccessKeyID: "a"}.Validate(), "set both or none")
	require.Equal(t, "/var/lib/uploads", config.Uploads{URL: "file:///var/lib/uploads/"}.Folder())
	require.Empty(t, config.Uploads{URL: "s3://bucket"}.Folder())
}
