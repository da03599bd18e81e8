//! Cryptography for tokens over `ring`, which is in the tree anyway: HS256 both ways, RS256, ES256 and EdDSA to verify.

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error as SignatureError, Signer, Verifier},
};
use ring::{hmac, signature};

static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory: signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

/// Makes it the process's provider. If the process has one already, that one stays.
pub(super) fn install() {
    if PROVIDER.install_default().is_err() {
        tracing::debug!("tokens use the crypto provider that was installed before");
    }
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            Ok(Box::new(Hs256(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))))
        }
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let bytes = key.try_get_as_bytes()?;
    let public = |how: &'static dyn signature::VerificationAlgorithm| {
        Box::new(Public { algorithm: *algorithm, key: signature::UnparsedPublicKey::new(how, bytes.to_vec()) })
    };
    Ok(match algorithm {
        Algorithm::HS256 => Box::new(Hs256(hmac::Key::new(hmac::HMAC_SHA256, bytes))),
        Algorithm::RS256 => public(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::ES256 => public(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::EdDSA => public(&signature::ED25519),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    })
}

struct Hs256(hmac::Key);

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, SignatureError> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        // Compares in constant time.
        hmac::verify(&self.0, message, signature).map_err(|_| SignatureError::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct Public {
    algorithm: Algorithm,
    key: signature::UnparsedPublicKey<Vec<u8>>,
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        self.key.verify(message, signature).map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
