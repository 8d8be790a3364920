"""Keys and tokens of public libraries (PyJWT, python-jose), as JSON on standard output, for the test of the same name."""

import json
import sys
import time

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jose import jwk as jose_jwk
from jose import jwt as jose
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "a-secret-of-at-least-thirty-two-bytes"
NOW = int(time.time())
CLAIMS = {
    "iss": "https://issuer.example",
    "aud": "tidegate",
    "sub": "somebody",
    "iat": NOW,
    "nbf": NOW - 1,
    "exp": NOW + 600,
    "scopes": ["publish:orders.*"],
}


def pem_of(private):
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    own = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return own.decode(), public.decode()


def jose_set(public, algorithm):
    """The library has some values as bytes."""
    key = jose_jwk.construct(public, algorithm).to_dict()
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in key.items()}


def tokens(sign, key, algorithm, kid=None):
    headers = {"kid": kid} if kid else None
    return {
        "good": sign(CLAIMS, key, algorithm=algorithm, headers=headers),
        "audiences": sign(CLAIMS | {"aud": ["other", "tidegate"]}, key, algorithm=algorithm, headers=headers),
        "expired": sign(CLAIMS | {"exp": NOW - 60}, key, algorithm=algorithm, headers=headers),
        "another issuer": sign(CLAIMS | {"iss": "https://other.example"}, key, algorithm=algorithm, headers=headers),
    }


def main():
    kinds = [
        ("RS256", rsa.generate_private_key(65537, 2048), RSAAlgorithm),
        ("ES256", ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm),
    ]
    cases = []
    for library, sign in [("PyJWT", jwt.encode), ("python-jose", jose.encode)]:
        cases.append({"library": library, "algorithm": "HS256", "secret": SECRET, "tokens": tokens(sign, SECRET, "HS256")})
        for algorithm, private, algorithm_class in kinds:
            if (library, algorithm) == ("python-jose", "EdDSA"):
                continue  # It has none.
            own, public = pem_of(private)
            if library == "PyJWT":
                key = json.loads(algorithm_class.to_jwk(private.public_key()))
            else:
                key = jose_set(public, algorithm)
            cases.append(
                {
                    "library": library,
                    "algorithm": algorithm,
                    "pem": public,
                    "jwks": {"keys": [key | {"kid": "k1", "use": "sig"}]},
                    "tokens": tokens(sign, own, algorithm, "k1"),
                }
            )
    unsigned = jwt.encode(CLAIMS, None, algorithm="none")
    json.dump({"cases": cases, "unsigned": unsigned}, sys.stdout)


main()
