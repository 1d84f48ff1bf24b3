// Package connector syncs remote sources: Google Drive, OneDrive and SharePoint libraries, Teams channels.
//
//	googledrive/  Drive API v3
//	onedrive/     Microsoft Graph: delta of a drive or folder
//	teams/        Microsoft Graph: delta of a channel's messages
//	graph/        what both ask of Microsoft Graph, and how
//	consent/      how a user lets an application read, and what that leaves in a configuration; the command line and the page ask so, too
//	provider/     what every provider's API needs: authorisation, quota, retries, deadlines
//
// and here, what makes a source of them:
//
//	connector.go    a subscription for each type
//	onedrive.go     (and one file for each other type) from a trigger to the source
//	account.go      from a connector's secrets to the clients that ask with them
//	rotate.go       refresh tokens that the provider has rotated
//	extract.go      content to text
//	types.go        which fields of a type's configuration are secret
package connector
