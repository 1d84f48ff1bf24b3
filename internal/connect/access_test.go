package connect_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
)

// bare runs a nats-server with options of its own.
func bare(t *testing.T, options *server.Options) (url string) {
	t.Helper()
	options.Host, options.Port, options.NoSigs, options.NoLog, options.StoreDir = "127.0.0.1", -1, true, true, t.TempDir()
	s, err := server.NewServer(options)
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s.ClientURL()
}

// connects says whether a connection with this access is made.
func connects(t *testing.T, url string, access config.NATSAccess) error {
	t.Helper()
	conn, _, err := connect.Once(url, access)
	if err == nil {
		conn.Close()
	}
	return err
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.file = write(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert, key
}

// pair is a certificate and its key, as files.
func (a *authority) pair(usage x509.ExtKeyUsage) (certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	return write(a.t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
		write(a.t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func TestAServerIsKnownByItsCertificateAndMayAskForOurs(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.pair(x509.ExtKeyUsageServerAuth)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	url := bare(t, &server.Options{TLS: true, TLSVerify: true, TLSTimeout: 5, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MinVersion: tls.VersionTLS12,
	}})
	own, ownKey := ours.pair(x509.ExtKeyUsageClientAuth)
	other, otherKey := theirs.pair(x509.ExtKeyUsageClientAuth)
	require.NoError(t, connects(t, url, config.NATSAccess{NATSCAFile: ours.file, NATSCertFile: own, NATSKeyFile: ownKey}))
	require.Error(t, connects(t, url, config.NATSAccess{NATSCAFile: ours.file}), "without a certificate")
	require.Error(t, connects(t, url, config.NATSAccess{NATSCAFile: ours.file, NATSCertFile: other, NATSKeyFile: otherKey}), "another authority's")
	require.Error(t, connects(t, url, config.NATSAccess{NATSCAFile: theirs.file, NATSCertFile: own, NATSKeyFile: ownKey}), "a server that is not known")
	require.Error(t, connects(t, url, config.NATSAccess{NATSCertFile: own, NATSKeyFile: ownKey}), "the system's authorities do not know it")

	plain := bare(t, &server.Options{})
	require.ErrorContains(t, connects(t, plain, config.NATSAccess{NATSCAFile: ours.file}), "secure connection not available",
		"an authority demands TLS")
}

func TestAnNKeyIsReadFromItsFile(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	seed, err := pair.Seed()
	require.NoError(t, err)
	url := bare(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	require.NoError(t, connects(t, url, config.NATSAccess{NATSNKeyFile: write(t, "seed", seed)}))
	require.Error(t, connects(t, url, config.NATSAccess{}))
}

func TestAJWTIsReadFromItsCredsFile(t *testing.T) {
	t.Parallel()
	operator, err := nkeys.CreateOperator()
	require.NoError(t, err)
	account, err := nkeys.CreateAccount()
	require.NoError(t, err)
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	public := func(k nkeys.KeyPair) string {
		name, err := k.PublicKey()
		require.NoError(t, err)
		return name
	}
	accountJWT, err := jwt.NewAccountClaims(public(account)).Encode(operator)
	require.NoError(t, err)
	claims := jwt.NewUserClaims(public(user))
	userJWT, err := claims.Encode(account)
	require.NoError(t, err)
	operatorClaims := jwt.NewOperatorClaims(public(operator))
	resolver := &server.MemAccResolver{}
	require.NoError(t, resolver.Store(public(account), accountJWT))
	url := bare(t, &server.Options{
		TrustedOperators: []*jwt.OperatorClaims{operatorClaims}, AccountResolver: resolver,
	})
	seed, err := user.Seed()
	require.NoError(t, err)
	creds, err := jwt.FormatUserConfig(userJWT, seed)
	require.NoError(t, err)
	require.NoError(t, connects(t, url, config.NATSAccess{NATSCredsFile: write(t, "user.creds", creds)}))
	require.Error(t, connects(t, url, config.NATSAccess{}))
}

func TestAWrongFileIsToldByItsSettingWithoutWhatIsInIt(t *testing.T) {
	t.Parallel()
	secret := write(t, "secret", []byte("SUSECRET-not-a-seed"))
	cert, _ := newAuthority(t).pair(x509.ExtKeyUsageClientAuth)
	for setting, access := range map[string]config.NATSAccess{
		"NATS_CREDS_FILE":   {NATSCredsFile: secret},
		"NATS_NKEY_FILE":    {NATSNKeyFile: secret},
		"NATS_CA_FILE":      {NATSCAFile: secret},
		"NATS_CERT_FILE":    {NATSCertFile: cert, NATSKeyFile: secret},
		"they exclude":      {NATSUser: "a", NATSNKeyFile: secret},
		"NATS_USER":         {NATSPassword: "SUSECRET"},
		"NATS_INBOX_PREFIX": {NATSInboxPrefix: "_INBOX.>"},
		"no such file":      {NATSCAFile: "/nowhere/ca.pem"},
		"needs its key":     {NATSCertFile: cert},
	} {
		_, err := connect.Access(access)
		require.ErrorContains(t, err, setting)
		require.NotContains(t, err.Error(), "SUSECRET")
	}
}
